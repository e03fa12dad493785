"""Power: signals, forecasts, batteries, the grid, machine power models and the ledger."""
