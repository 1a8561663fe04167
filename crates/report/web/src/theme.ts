import { h } from "./dom";

type Theme = "light" | "dark";

function preferred(): Theme {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** A button that switches between light and dark; until it is used, the page follows the system. */
export function themeToggle(): HTMLElement {
  const button = h("button", { type: "button", class: "theme-toggle", id: "theme-toggle" });
  const wanted = new URLSearchParams(location.search).get("theme");
  if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
  const current = (): Theme => (document.documentElement.dataset.theme as Theme | undefined) ?? preferred();
  const label = (): void => {
    const next = current() === "dark" ? "light" : "dark";
    button.textContent = next === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Switch to the ${next} theme`);
    button.title = `Switch to the ${next} theme`;
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = current() === "dark" ? "light" : "dark";
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
  return button;
}
