"""Rules of the ops by family; the files mirror those in yaml/. Importing registers them."""

from phix.primitives import activation as activation
from phix.primitives import arithmetic as arithmetic
from phix.primitives import callback as callback
from phix.primitives import collective as collective
from phix.primitives import contraction as contraction
from phix.primitives import control_flow as control_flow
from phix.primitives import control_flow_taylor as control_flow_taylor
from phix.primitives import convolution as convolution
from phix.primitives import creation as creation
from phix.primitives import einsum as einsum
from phix.primitives import indexing as indexing
from phix.primitives import layer as layer
from phix.primitives import loss as loss
from phix.primitives import normalisation as normalisation
from phix.primitives import pointwise as pointwise
from phix.primitives import pooling as pooling
from phix.primitives import random as random
from phix.primitives import rearrangement as rearrangement
from phix.primitives import reduction as reduction
from phix.primitives import scan as scan
from phix.primitives import shape as shape
from phix.primitives import simplifications as simplifications
from phix.primitives import slicing as slicing
from phix.primitives import sorting as sorting
from phix.primitives import taylor as taylor
from phix.primitives import transformation as transformation
