// The pictures follow JupyterLab's word for light and dark; this page says the same one.
const say = () => {
  document.body.dataset.jpThemeLight = document.documentElement.dataset.theme !== "dark";
};
addEventListener("DOMContentLoaded", say);
// A region needs a name of its own, and a page may have several pictures of one kind.
addEventListener("DOMContentLoaded", () => {
  const regroup = () => {
    for (const code of document.querySelectorAll(".ipu-live pre[role=region]")) code.setAttribute("role", "group");
  };
  new MutationObserver(regroup).observe(document.body, { childList: true, subtree: true });
});
new MutationObserver(say).observe(document.documentElement, { attributeFilter: ["data-theme"] });
