// Lines of code to put in order, as an anywidget: arrows choose a line, Alt and arrows move it;
// buttons do the same.
export default {
  render({ model, el }) {
    el.classList.add("ipu-view");
    const bringBack = standIn(el);
    const add = (parent, tag, attributes, text = "") => {
      const made = document.createElement(tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      made.textContent = text;
      parent.append(made);
      return made;
    };
    const lines = model.get("lines");
    const OUT = -1;  // the border: what stands below it is left out
    let order = [OUT, ...lines.keys()];
    let at = 1;
    let tries = 0;
    const id = `puzzle-${Math.random().toString(36).slice(2)}`;
    const frame =
      "border:1px solid;border-left-width:.4em;border-radius:.3em;padding:.5em .9em;max-width:60em";
    const box = add(el, "div", { role: "group", "aria-label": model.get("heading"), style: frame });
    box.setAttribute("data-lm-suppress-shortcuts", "true");
    add(box, "strong", {}, model.get("heading"));
    const keys = "Up and Down choose a line; with Alt they move it; "
      + "X takes it in or out; Enter tries the order.";
    add(box, "p", { id: `${id}-help`, style: "margin:.3em 0" }, `${model.get("about")} ${keys}`);
    const code = "font-family:monospace;white-space:pre;overflow-x:auto";
    add(box, "div", { style: `${code};margin-left:1.9em` }, model.get("above"));
    const list = add(box, "div", {
      role: "listbox", tabindex: "0", "aria-label": "lines of the answer",
        "aria-describedby": `${id}-help`, style: "margin:.3em 0",
    });
    const said = add(
      box, "div", { role: "status",
        style: "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)" });
    const place = (i) =>
      (i > order.indexOf(OUT) ? "left out" : `place ${i + 1} of ${order.indexOf(OUT)}`);
    const draw = () => {
      list.replaceChildren();
      const border = order.indexOf(OUT);
      order.forEach((line, i) => {
        const rim = i === at ? "outline:2px solid currentColor;" : "";
        const look = `padding:.1em .4em;border-radius:.2em;outline-offset:-2px;${rim}`;
        const text = line === OUT ? "what stands below this line is left out" : lines[line];
        const item = add(list, "div", {
          role: "option", id: `${id}-${i}`, "aria-selected": String(i === at),
          "aria-label": line === OUT ? text : `${text.trim()}, ${place(i)}`,
          style: look + (
            line === OUT ? "border-bottom:2px dashed;font-style:italic"
            : `cursor:grab;display:flex;gap:.8em;${code}`),
        }, line === OUT ? text : "");
        if (line !== OUT) {
          add(item, "span", { "aria-hidden": "true", style: "user-select:none" },
            i < border ? String(i + 1) : "–");
          add(item, "span", { style: i < border ? "" : "font-style:italic" }, text);
          item.draggable = true;
          item.addEventListener("dragstart", () => { at = i; });
        }
        item.addEventListener("dragover", (event) => event.preventDefault());
        item.addEventListener("drop", (event) => { event.preventDefault(); move(i); });
        item.addEventListener("click", () => choose(i));
      });
      list.setAttribute("aria-activedescendant", `${id}-${at}`);
    };
    const choose = (i) => {
      at = Math.max(0, Math.min(order.length - 1, i));
      draw();
    };
    // The chosen line goes to place i. The border stays where it is but for the lines that cross
    // it.
    const move = (i) => {
      if (order[at] === OUT || i < 0 || i >= order.length) return;
      const [line] = order.splice(at, 1);
      order.splice(i, 0, line);
      choose(i);
      said.textContent = `${lines[line].trim()}: ${place(i)}`;
    };
    const across = () => {
      const border = order.indexOf(OUT);
      if (at !== border) move(at > border ? border : order.length - 1);
    };
    const attempt = () => {
      tries += 1;
      said.textContent = "trying";
      model.set("tried", [tries, order.slice(0, order.indexOf(OUT))]);
      model.save_changes();
    };
    const KEYS = {
      ArrowUp: (event) => (event.altKey ? move(at - 1) : choose(at - 1)),
      ArrowDown: (event) => (event.altKey ? move(at + 1) : choose(at + 1)),
      Home: () => choose(0),
      End: () => choose(order.length - 1),
      Enter: attempt,
      x: across,
      X: across,
    };
    list.addEventListener("keydown", (event) => {
      const act = KEYS[event.key];
      if (!act || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      act(event);
    });
    const row = add(
      box, "div", { role: "toolbar", "aria-label": "move the chosen line",
        style: "display:flex;gap:.5em;flex-wrap:wrap" });
    const button = (label, act) => {
      const look = "font:inherit;color:inherit;background:none;border:1px solid;border-radius:.3em;"
        + "padding:.15em .7em;cursor:pointer";
      add(row, "button", { type: "button", style: look }, label).addEventListener("click", act);
    };
    button("Up", () => move(at - 1));
    button("Down", () => move(at + 1));
    button("In or out", across);
    button("Try this order", attempt);
    const verdict = add(box, "div", { "aria-live": "polite" });
    const answer = () => { verdict.innerHTML = model.get("verdict"); };
    model.on("change:verdict", answer);
    answer();
    draw();
    return () => {
      model.off("change:verdict", answer);
      bringBack();
    };
  },
};
