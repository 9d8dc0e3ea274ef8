"""Functions on images, a module per family; `sparkflow.image` re-exports them."""
