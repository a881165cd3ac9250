from . import keys as keys
from .destination import (
    NOTHING_ASKED as NOTHING_ASKED,
    Asked as Asked,
    choose_destination as choose_destination,
    tags_of as tags_of,
)
from .keys import (
    CELL as CELL,
    CELL_ID as CELL_ID,
    RELATIVE_LOSS as RELATIVE_LOSS,
    RUN_DIRECTORY as RUN_DIRECTORY,
    SEED as SEED,
    STATUS as STATUS,
    STEP as STEP,
    size_key as size_key,
)
from .mode import decide_mode as decide_mode, has_key as has_key
from .process import PublisherProcess as PublisherProcess, offline_reason as offline_reason
from .published import directory_id as directory_id
from .publisher import publish as publish, sync as sync
from .service import restart_service as restart_service, server_url as server_url
from .shards import WHOLE as WHOLE, read_shard as read_shard
