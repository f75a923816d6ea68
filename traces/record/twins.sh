# Twins: a plain model with a technique really switched on.  Read by make_all.sh.
