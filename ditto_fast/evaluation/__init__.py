"""The paper's tables as commands: STS data, protocol, poolers, head search. Torch only in `with_torch`."""
