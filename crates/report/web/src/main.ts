import { pathSection } from "./criticality/paths";
import { criticalThreadSection } from "./criticality/threads";
import { criticalWaitSection } from "./criticality/waits";
import { whatIfSection } from "./criticality/what_if";
import { cutPlaceOf } from "./cut/place";
import { cutSection } from "./cut/section";
import { drillDown } from "./drill_down";
import { h } from "./dom";
import { featureSections } from "./feature/section";
import { flowSection } from "./flows";
import { latencySection } from "./latency/section";
import { graphView } from "./graph/view";
import { navigation, pageFooter, pageHeader } from "./header";
import { modelOf } from "./model";
import { embeddedReport, hasFlows } from "./report";
import { hrefOf, type Place, placeOf } from "./route";
import { section } from "./section";
import { timeStrip } from "./time_strip";
import { findings } from "./summary";
import { threadSection } from "./threads";
import { timelineSection } from "./timeline/section";
import { lockSection, lossSection, waitSection } from "./waiting";
import { walkSections } from "./walk/section";

/** Least scale at which the graph's text can be read. */
const LEGIBLE = 0.8;

function start(): void {
  const model = modelOf(embeddedReport());
  const flows = flowSection(model);
  const drill = drillDown(model, (filter) => flows.show(filter));
  const open = (component: string): void => {
    location.hash = hrefOf({ component });
  };
  const beside = h("div", { class: "components" });
  // A graph that would be too small beside the drill-down stands above it.
  const arrange = (): void => {
    beside.classList.toggle("stacked", graph.naturalWidth() * LEGIBLE > beside.clientWidth * 0.57);
  };
  const graph = graphView(model, open, arrange);
  beside.append(graph.element, drill.element);
  new ResizeObserver(arrange).observe(beside);

  const components = section(
    "components",
    "Components",
    "The executable and its libraries. Click a box to see which of its APIs take the time, and who calls them.",
    timeStrip(model),
    beside,
  );
  const latency = latencySection(model);
  const cut = cutSection(model);
  const { criticality } = model.report;
  const critical = criticality === null
    ? []
    : [
        pathSection(criticality, model.report.paths_left_out),
        timelineSection(model),
        whatIfSection(criticality),
        criticalWaitSection(criticality, model.report.waits_left_out),
        criticalThreadSection(criticality),
      ].filter((part) => part !== null);
  // A recording without calls between components has nothing to say about them.
  const ofFlows = hasFlows(model.report);
  const parts = [
    findings(model),
    ...walkSections(model.report),
    ...featureSections(model.report),
    ...(cut === null ? [] : [cut]),
    ...critical,
    ...(ofFlows ? [components, flows.element] : []),
    ...(latency === null ? [] : [latency.element]),
    ...(ofFlows ? [threadSection(model), waitSection(model), lockSection(model)] : []),
    lossSection(model),
  ];
  document.body.replaceChildren(
    h("a", { class: "skip", href: "#findings" }, "Skip to the findings"),
    pageHeader(model),
    navigation(parts.map((part) => part.id)),
    h("main", {}, ...parts),
    pageFooter(model),
  );

  const follow = (scroll: boolean): void => {
    const place: Place | null = placeOf(location.hash);
    if (place === null || cutPlaceOf(location.hash) !== null) return;
    if (place.latency !== undefined) {
      latency?.show(place.latency);
      if (scroll) document.getElementById("latency-picture")?.scrollIntoView({ block: "nearest" });
      return;
    }
    drill.show(place);
    graph.select(place.component);
    if (scroll) document.getElementById("drill")?.scrollIntoView({ block: "nearest" });
  };
  drill.show({});
  // Headless browsers take pictures from the top of the page only: `?scroll=no`, as screenshot.mjs asks.
  follow(new URLSearchParams(location.search).get("scroll") !== "no");
  addEventListener("hashchange", () => follow(true));
  // The sections did not exist when the browser looked for the fragment.
  if (placeOf(location.hash) === null && location.hash.length > 1) {
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (flows.element.isConnected) flows.focusFilter();
    else (document.getElementById("latency-filter") ?? document.getElementById("walk-search") ?? document.getElementById("region-filter"))?.focus();
  });
}

start();
