"""Images of a pool: a first layer that knows their bits, and networks with convolutions."""
