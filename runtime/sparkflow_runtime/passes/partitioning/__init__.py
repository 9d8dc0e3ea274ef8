"""One partition per device: cut, then what travels is bundled, lent and narrowed."""
