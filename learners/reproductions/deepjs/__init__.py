"""`simkit reproduce deepjs`: the published table and figures, and better schedulers beside them."""
