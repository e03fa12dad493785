"""Networks over images of a pool: a first layer without pixels, and convolutions."""
