"""Types of the public names: the same as the table in __init__.py."""

from .answer import Answer as Answer
from .certified import Certified as Certified
from .checked import Checked as Checked
from .checked import ntp_check as ntp_check
from .diagnosis import Diagnosis as Diagnosis
from .diagnosis import Finding as Finding
from .diagnosis import examine as examine
from .probed import Probed as Probed
from .probed import probe_file as probe_file
from .reproduction import Reproduction as Reproduction
from .sentences import Drawn as Drawn
from .sentences import Predicted as Predicted
from .sentences import ntp_generate as ntp_generate
from .sentences import ntp_predict as ntp_predict
from .solved import FlowEnd as FlowEnd
from .solved import Solved as Solved
from .swept import OneTrial as OneTrial
from .swept import Swept as Swept
from .trained import Trained as Trained
from .trained import ntp_train as ntp_train
from .verified import Judged as Judged
from .verified import Verified as Verified
