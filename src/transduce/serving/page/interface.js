// Writes the address of this server into the examples.

const address = new URL(".", location).href.replace(/\/$/, "");
for (const element of document.querySelectorAll(".server")) element.textContent = address;
