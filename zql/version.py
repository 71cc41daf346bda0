"""The version of this program, for those below the package's surface too."""

VERSION = "0.1.0"
