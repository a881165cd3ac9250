from .server import open_page as open_page
