// The place in the drill-down is in the address, so that it can be linked to and the back button works:
// `#/component/libz.so.1/api/deflate`. So is the function whose latency is shown: `#/latency/libz.so.1/deflate/4096`.

export interface Place {
  component?: string;
  api?: string;
  latency?: LatencyPlace;
}

/** A function of the latency table; the address tells functions of one name apart. */
export interface LatencyPlace {
  component: string;
  function: string;
  address?: number;
}

/** The fragment of a place. */
export function hrefOf(place: Place): string {
  let href = "#/";
  if (place.latency !== undefined) {
    const { component, function: name, address } = place.latency;
    const parts = [component, name, ...(address === undefined ? [] : [String(address)])];
    return `${href}latency/${parts.map(encodeURIComponent).join("/")}`;
  }
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
  if (word === "latency" && component !== undefined && api !== undefined) {
    try {
      const latency: LatencyPlace = { component: decodeURIComponent(component), function: decodeURIComponent(api) };
      if (name !== undefined && /^\d+$/.test(name)) latency.address = Number(name);
      return { latency };
    } catch {
      return {};
    }
  }
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
