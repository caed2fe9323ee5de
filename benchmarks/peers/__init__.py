"""Other methods, written plainly, where no published program installs."""
