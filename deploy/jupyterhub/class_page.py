"""The class page as a service of a hub, for the instructor alone: class_page.py FOLDER…

The page is that of `ipu-teach class FOLDER… --serve`. Here every request must come from somebody
whom the hub lets at this service, one of this very machine too: learners' kernels run on it.
"""

import asyncio
import os
import sys
from urllib.parse import quote, urlsplit

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from jupyterhub.utils import url_path_join
from tornado import web

from ipu_course.classroom.board import html, tables
from ipu_course.classroom.roster import called
from ipu_course.classroom.serve import page, table


class Asked(HubOAuthenticated, web.RequestHandler):
    """What both pages have in common: the folders, and that nobody keeps a copy."""

    def set_default_headers(self):
        self.set_header("Cache-Control", "no-store")

    async def made(self, make, *how):
        """What `make`, `page` or `table`, makes of the class; the files are read beside the loop of
        requests."""
        folders = self.settings["folders"]
        self.write(await asyncio.to_thread(make, lambda: html(tables(called(folders))), *how))


class ClassPage(Asked):
    @web.authenticated
    async def get(self):
        # What a script of a page asks for counts only with a token that this page alone was given.
        await self.made(page, f"table?_xsrf={quote(self.xsrf_token)}")


class ClassTable(Asked):
    async def get(self):
        # asked by the page itself: a log-in form would be of no use in its place
        if self.current_user is None:
            raise web.HTTPError(403)
        await self.made(table)


def application(folders, prefix):
    """The service below `prefix`, a path that ends in a stroke."""
    routes = [
        (prefix, ClassPage),
        (prefix + "table", ClassTable),
        (url_path_join(prefix, "oauth_callback"), HubOAuthCallbackHandler),
    ]
    return web.Application(routes, folders=folders, cookie_secret=os.urandom(32))


async def main(folders):
    where = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    pages = application(folders, os.environ["JUPYTERHUB_SERVICE_PREFIX"])
    try:
        pages.listen(where.port, where.hostname)
    except OSError as error:
        sys.exit(
            f"The class page cannot be served at port {where.port}: {error.strerror}. Start the "
            "hub with another in IPU_TEACH_HUB_CLASS_PORT, or change the service's url."
        )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
