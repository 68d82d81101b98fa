"""Find mistakes in files of cases without running them."""
