"""The first screen: what is wrong, what moves, who leads; made of the tables of the others."""
