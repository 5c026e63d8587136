// The pictures follow JupyterLab's word for light and dark; this page says the same one.
const say = () => {
  document.body.dataset.jpThemeLight = document.documentElement.dataset.theme !== "dark";
};
addEventListener("DOMContentLoaded", say);
new MutationObserver(say).observe(document.documentElement, { attributeFilter: ["data-theme"] });
