"""Texts as sequences of ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

_WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text."""
    for text in iterator:
        yield _WORD.findall(text)


class CategoricalVocabulary:
    """Ids of words; 0 is the unknown one.

    Args:
        unknown_token: The word of id 0.
        support_reverse: Keep the words by id.
    """

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:  # noqa: S107
        self._ids: dict[str, int] = {unknown_token: 0}
        self._words = [unknown_token]
        self._counts: dict[str, int] = {}
        self._frozen = False
        self._reversible = support_reverse

    def __len__(self) -> int:
        return len(self._ids)

    def freeze(self, freeze: bool = True) -> None:
        """Assigns the id 0 to all new words from now on."""
        self._frozen = freeze

    def get(self, category: str) -> int:
        """The id of a word."""
        if category not in self._ids:
            if self._frozen:
                return 0
            self._ids[category] = len(self._ids)
            self._words.append(category)
        return self._ids[category]

    def add(self, category: str, count: int = 1) -> None:
        """Counts a word."""
        if self.get(category) > 0:
            self._counts[category] = self._counts.get(category, 0) + count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keeps the words that were counted more than `min_frequency` times, most frequent first.

        Args:
            min_frequency: The bound below.
            max_frequency: The bound above, negative for none.
        """
        ordered = sorted(sorted(self._counts.items()), key=lambda item: item[1], reverse=True)
        kept = [
            (word, count)
            for word, count in ordered
            if count > min_frequency and (max_frequency < 0 or count < max_frequency)
        ]
        self._words = [self._words[0], *[word for word, _ in kept]]
        self._ids = {word: index for index, word in enumerate(self._words)}
        self._counts = dict(kept)

    def reverse(self, class_id: int) -> str:
        """The word of an id.

        Raises:
            ValueError: The words are not kept.
        """
        if not self._reversible:
            raise ValueError(
                "This vocabulary wasn't initialized with support_reverse to support "
                "reverse() function."
            )
        return self._words[class_id]


class VocabularyProcessor:
    """Texts as sequences of ids of one length.

    Args:
        max_document_length: The length; what is longer is cut, what is shorter filled with 0.
        min_frequency: Words that are not more frequent are unknown.
        vocabulary: A `CategoricalVocabulary`; an empty one when None.
        tokenizer_fn: From texts to lists of words; `tokenizer` when None.
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: Any = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterator[Any]] | None = None,
    ) -> None:
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learns the words of the texts."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(
        self, raw_documents: Iterable[str], unused_y: Any = None
    ) -> Iterator[np.ndarray[Any, Any]]:
        """Learns the words of the texts and returns their ids."""
        documents = list(raw_documents)
        self.fit(documents)
        return self.transform(documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray[Any, Any]]:
        """The ids of each text [max_document_length] int64."""
        for words in self._tokenizer(raw_documents):
            ids = np.zeros(self.max_document_length, np.int64)
            for index, word in enumerate(list(words)[: self.max_document_length]):
                ids[index] = self.vocabulary_.get(word)
            yield ids

    def reverse(self, documents: Iterable[Any]) -> Iterator[str]:
        """The texts of ids."""
        for ids in documents:
            yield " ".join(self.vocabulary_.reverse(int(each)) for each in ids)
