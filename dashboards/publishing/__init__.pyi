from . import keys as keys
from .client import restart_service as restart_service, server_url as server_url
from .damage import publishing_damage as publishing_damage
from .destination import (
    NOTHING_ASKED as NOTHING_ASKED,
    Asked as Asked,
    check_names as check_names,
    choose_destination as choose_destination,
    destination_words as destination_words,
    tags_of as tags_of,
)
from .keys import CELL as CELL, STATUS as STATUS, TRIAL_ID as TRIAL_ID
from .mode import decide_mode as decide_mode, has_key as has_key, may_be_online as may_be_online
from .process import (
    PublisherProcess as PublisherProcess,
    alert_beside as alert_beside,
    offline_reason as offline_reason,
    silence_client as silence_client,
    unconfirmed_words as unconfirmed_words,
)
from .published import directory_id as directory_id
from .publisher import publish as publish, sync as sync
from .wandb_border import (
    document_of as document_of,
    set_id as set_id,
    set_workspace_id as set_workspace_id,
    set_workspace_name as set_workspace_name,
    workspace_id as workspace_id,
)
