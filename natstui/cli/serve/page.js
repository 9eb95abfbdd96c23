// Keys go to the terminal from its first line on, and again whenever the page comes to the front.
const focusTerminal = () => document.querySelector(".xterm-helper-textarea")?.focus();
new MutationObserver(focusTerminal).observe(document.body, { attributeFilter: ["class"] });
addEventListener("focus", focusTerminal);
