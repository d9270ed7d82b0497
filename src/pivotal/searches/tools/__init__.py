"""What several searches do: fit values, try masks, swap units, drop units, hold constraints."""
