"""From element sets to traces: reading, SGP4, Sun and Moon, shadow, contacts, releases."""
