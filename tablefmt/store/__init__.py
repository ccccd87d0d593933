"""Object stores: one small set of verbs over local disk, memory and S3, built on put-if-absent."""
