from .notebooks import (
    load as load,
)
from .page import (
    write_report as write_report,
)
from .publishing import (
    PublisherProcess as PublisherProcess,
    publish as publish,
    sync as sync,
)
