"""Programs that use an Entrepot volume. See `entrepot.checkpoint`."""
