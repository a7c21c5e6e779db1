// The table of contents: closed on a phone, and on a desktop it marks the section in view.
const contents = document.querySelector(".contents details");
const narrow = matchMedia("(max-width: 67.99rem)");

function fold() {
  contents.open = !narrow.matches;
}

function mark(id) {
  for (const link of contents.querySelectorAll("a")) {
    if (link.hash === `#${id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

function follow() {
  const sections = [...document.querySelectorAll("main section[id]")];
  const visible = new Set();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) visible.add(target);
        else visible.delete(target);
      }
      const first = sections.find((section) => visible.has(section));
      if (first) mark(first.id);
    },
    { rootMargin: "-10% 0px -60% 0px" },
  );
  sections.forEach((section) => observer.observe(section));
}

fold();
narrow.addEventListener("change", fold);
contents.addEventListener("click", (event) => {
  if (narrow.matches && event.target.closest("a")) contents.open = false;
});
follow();
