"""What Recoup is made of and made into: pins, licences, a bill of materials, packages."""
