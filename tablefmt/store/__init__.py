"""The stores: a small set of verbs over local disk, memory and S3, with put-if-absent at heart."""
