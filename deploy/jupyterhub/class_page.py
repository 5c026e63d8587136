"""Serve the class page as a service of a JupyterHub, for the instructor: class_page.py FOLDER…

The page is that of `ipu-teach class FOLDER… --serve`. The hub must have allowed the user of each
request to use this service. This includes requests from the same machine, because learners' kernels
run there.
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
    """The base class of both request handlers: it knows the folders, and forbids caching."""

    def set_default_headers(self):
        self.set_header("Cache-Control", "no-store")

    async def made(self, make, *how):
        """Write the result of `make` (`page` or `table`) for the class to the response.

        A thread reads the files, so that the event loop is not blocked.
        """
        folders = self.settings["folders"]
        self.write(await asyncio.to_thread(make, lambda: html(tables(called(folders))), *how))


class ClassPage(Asked):
    @web.authenticated
    async def get(self):
        # A script's request is accepted only with a token that only this page receives.
        await self.made(page, f"table?_xsrf={quote(self.xsrf_token)}")


class ClassTable(Asked):
    async def get(self):
        # The script of the page requests this address. A script could not fill in a log-in form, so
        # it gets an error.
        if self.current_user is None:
            raise web.HTTPError(403)
        await self.made(table)


def application(folders, prefix):
    """Return the web application with its pages below `prefix`, a path that ends in a slash."""
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
