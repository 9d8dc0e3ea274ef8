"""`tf.signal`: Fourier transforms, windows and frames.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.ops.linalg.fourier": (
            "dct fft fft2d fft3d fftshift idct ifft ifft2d ifft3d ifftshift irfft irfft2d "
            "irfft3d rfft rfft2d rfft3d"
        ),
        "sparkflow.ops.linalg.signal": (
            "frame hamming_window hann_window inverse_stft inverse_stft_window_fn "
            "kaiser_window linear_to_mel_weight_matrix mfccs_from_log_mel_spectrograms "
            "overlap_and_add stft vorbis_window"
        ),
    },
)
