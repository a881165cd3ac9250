from .opening import open_page as open_page
