// The place in the drill-down is in the address, so that it can be linked to and the back button works:
// `#/component/libz.so.1/api/deflate`.

export interface Place {
  component?: string;
  api?: string;
}

/** The fragment of a place. */
export function hrefOf(place: Place): string {
  let href = "#/";
  if (place.component !== undefined) {
    href += `component/${encodeURIComponent(place.component)}`;
    if (place.api !== undefined) href += `/api/${encodeURIComponent(place.api)}`;
  }
  return href;
}

/** The place that a fragment names; `null` for the fragment of a section, which leaves the place as it is. */
export function placeOf(hash: string): Place | null {
  if (!hash.startsWith("#/")) return null;
  const [word, component, api, name] = hash.slice(2).split("/");
  if (word !== "component" || component === undefined) return {};
  try {
    const place: Place = { component: decodeURIComponent(component) };
    if (api === "api" && name !== undefined) place.api = decodeURIComponent(name);
    return place;
  } catch {
    // A malformed escape names no place.
    return {};
  }
}
