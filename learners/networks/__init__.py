"""Networks: their shapes as data, in torch and in NumPy, their distributions and optimisers."""
