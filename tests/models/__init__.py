"""Small models of published packages, compared with torch."""
