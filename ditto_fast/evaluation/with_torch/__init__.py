"""What needs torch: writing a checkpoint's token states as a graph, and fitting BERT-flow."""
