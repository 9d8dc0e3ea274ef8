"""The trained model: predictions, files, summaries."""
