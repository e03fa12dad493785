"""One pool of processors as arrays, compiled: whole episodes at once, or decision by decision."""
