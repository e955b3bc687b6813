// The page works without this script, but for the filter, the refresh and the controls. Text of clients is only ever set as text.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const refreshEvery = 15_000; // ms

  function el(tag, text) {
    const e = document.createElement(tag);
    e.textContent = text;
    return e;
  }

  async function ask(path, options) {
    const resp = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store", ...options });
    const body = await resp.json().catch(() => ({}));
    if (!resp.ok) throw new Error(body.error || `${resp.status} ${resp.statusText}`);
    return body;
  }

  function filter() {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...$("identities").tBodies[0].rows].filter((r) => r.cells.length > 1);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((w) => text.includes(w));
      if (!row.hidden) shown++;
    }
    $("shown").textContent = `${shown} of ${rows.length} identities`;
  }

  function say(text, bad, list = []) {
    const diff = $("diff");
    diff.replaceChildren(el("p", text));
    diff.classList.toggle("bad", bad);
    if (list.length) {
      const ul = document.createElement("ul");
      for (const item of list) ul.append(el("li", item));
      diff.append(ul);
    }
  }

  const calls = (n) => `${n} ${n === 1 ? "call" : "calls"}`;

  async function preview() {
    const to = $("to").value;
    try {
      const d = await ask(`/admin/stage/preview?stage=${encodeURIComponent(to)}`);
      const who = d.refused.map((r) => `${r.label} (${r.class}), ${calls(r.calls)} in the last ${d.days} days`);
      const verdict = d.checked ? ` Readiness check: ${d.verdict}.` : "";
      say(who.length ? `At ${to} these would be refused.${verdict}` : `At ${to} nobody seen in the last ${d.days} days would be refused.${verdict}`, false, who);
      return true;
    } catch (err) {
      say(String(err.message || err), true);
      return false;
    }
  }

  // The first press of Change shows who is refused, the second one does it.
  let armed = "";

  function disarm() {
    armed = "";
    $("apply").textContent = "Change";
  }

  async function change(event) {
    event.preventDefault();
    const wanted = JSON.stringify([$("to").value, $("reason").value, $("force").checked]);
    if (armed !== wanted) {
      if (await preview()) {
        armed = wanted;
        $("apply").textContent = `Yes, change to ${$("to").value}`;
      }
      return;
    }
    disarm();
    try {
      const done = await ask("/admin/stage", {
        method: "PUT",
        headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify({
          version: Number($("main").dataset.version), stage: $("to").value, reason: $("reason").value, force: $("force").checked,
        }),
      });
      await refresh(true);
      say(`The stage is ${done.state.stage} now, version ${done.state.version}.`, false);
      $("status").textContent = `stage ${done.state.stage}, version ${done.state.version}`;
    } catch (err) {
      say(String(err.message || err), true);
    }
  }

  // refresh replaces what has changed by what the server renders; what is being typed stays.
  async function refresh(always) {
    const resp = await fetch("/admin/", { cache: "no-store" });
    if (!resp.ok) throw new Error(`${resp.status} ${resp.statusText}`);
    const next = new DOMParser().parseFromString(await resp.text(), "text/html");
    const [now, then] = [$("main"), next.getElementById("main")];
    $("status").replaceChildren(...next.getElementById("status").childNodes);
    if (!always && now.dataset.digest === then.dataset.digest && now.dataset.version === then.dataset.version) return;
    document.title = next.title;
    now.dataset.digest = then.dataset.digest;
    now.dataset.version = then.dataset.version;
    const open = new Set([...now.querySelectorAll("details[open]")].map((d) => d.closest("figure").querySelector("figcaption").textContent));
    for (const section of now.querySelectorAll("section")) {
      const id = section.getAttribute("aria-labelledby");
      if (id === "h-controls") continue;
      const fresh = then.querySelector(`section[aria-labelledby="${id}"]`);
      const words = id === "h-identities" ? $("filter").value : "";
      const typing = section.contains(document.activeElement) && document.activeElement.id === "filter";
      section.replaceWith(fresh);
      if (id === "h-identities") {
        $("filter").value = words;
        if (typing) $("filter").focus();
        wireFilter();
        filter();
      }
    }
    for (const d of now.querySelectorAll("details")) d.open = open.has(d.closest("figure").querySelector("figcaption").textContent);
  }

  async function poll() {
    try {
      if (!document.hidden) await refresh(false);
    } catch (err) {
      $("status").textContent = `cannot refresh: ${err.message || err}`;
    }
    setTimeout(poll, refreshEvery);
  }

  function wireFilter() {
    $("filter").addEventListener("input", filter);
  }

  wireFilter();
  $("preview").addEventListener("click", preview);
  $("change").addEventListener("submit", change);
  $("change").addEventListener("input", disarm);
  setTimeout(poll, refreshEvery);
})();
