"""Trees of tensors in files: ``phix.save`` and ``phix.load``, imported on first use."""
