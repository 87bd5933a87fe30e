"""Hooks into compilers: ``autoload`` follows the import of a compiler, ``triton`` validates what Triton compiles and launches."""
