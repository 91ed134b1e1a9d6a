"""The classes of layers, losses and containers: torch.nn.modules' names, as these files list them."""

from jitgrad.nn.adaptive import *
from jitgrad.nn.containers import *
from jitgrad.nn.lazy import *
from jitgrad.nn.module import *
from jitgrad.nn.modules.activation import *
from jitgrad.nn.modules.attention import *
from jitgrad.nn.modules.conv import *
from jitgrad.nn.modules.dropout import *
from jitgrad.nn.modules.linear import *
from jitgrad.nn.modules.loss import *
from jitgrad.nn.modules.margin import *
from jitgrad.nn.modules.normalization import *
from jitgrad.nn.modules.padding import *
from jitgrad.nn.modules.pooling import *
from jitgrad.nn.modules.resampling import *
from jitgrad.nn.modules.rnn import *
from jitgrad.nn.modules.rnn_cells import *
from jitgrad.nn.modules.sparse import *
from jitgrad.nn.modules.transformer import *
from jitgrad.nn.utils import tuples
from jitgrad.paths import stands_for

stands_for(__name__, globals(), "activation adaptive batchnorm channelshuffle container conv distance dropout flatten "
           "fold instancenorm linear loss module normalization padding pixelshuffle pooling rnn sparse transformer "
           "upsampling")
stands_for(__name__, vars(tuples), "utils")

# not the files, which Python has made names of this package; type checkers know a star from those, and need no list
globals()["__all__"] = [name for name, value in globals().items() if isinstance(value, type)]
