// What holds now of the conditions of notification rules, above the pages where people see jobs and quotas.

import { Alert, AlertActionCloseButton, List, ListItem } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router-dom";
import { ask, client, type Schemas } from "../api/client";
import { hasCode } from "../api/problem";
import { recallForSession, rememberForSession } from "../browser/storage";
import { Sentence } from "../components/sentences";
import { describeError } from "../components/states";
import { Ago } from "../components/time";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";

const text = messages.notifications.alerts;
/** As often as the service evaluates the rules. */
const every = 30_000;
const most = 5;
const dismissedKey = "odh-training-dismissed-alerts";

type One = Schemas["Alert"];

export function Alerts({ namespace }: { namespace: string }) {
  const { data, error } = useQuery({
    queryKey: ["alerts", namespace],
    queryFn: ({ signal }) =>
      ask(client.GET("/api/v1/alerts", { params: { query: namespace ? { namespace } : {} }, signal })),
    refetchInterval: every,
  });
  return <div className="app-alerts">{data ? <KnownAlerts list={data} /> : error && <Unknown error={error} />}</div>;
}

/** Who may see no jobs here learns that from the page itself. */
function Unknown({ error }: { error: unknown }) {
  if (hasCode(error, "NotAllowed") || hasCode(error, "Unauthenticated")) return null;
  return (
    <Alert isInline component="h2" variant="info" title={text.unknown}>
      <bdi>{describeError(error).body}</bdi>
    </Alert>
  );
}

/** Which alert this is: one that comes again after it was over is another one. */
function idOf({ namespace, rule, kind, name, since }: One): string {
  return [namespace, rule, kind, name, since].join("/");
}

export function KnownAlerts({ list: { alerts, total = 0, unknown } }: { list: Schemas["ListAlertsResponse"] }) {
  const [dismissed, setDismissed] = useState(() => new Set(recallForSession(dismissedKey)?.split("\n")));
  const dismiss = () => {
    const all = new Set([...dismissed, ...alerts.map(idOf)]);
    setDismissed(all);
    rememberForSession(dismissedKey, [...all].join("\n"));
  };
  const shown = alerts.filter((alert) => !dismissed.has(idOf(alert)));
  // Those that the service did not send are as new as these.
  const count = shown.length + total - alerts.length;
  return (
    <>
      {shown.length > 0 && (
        <Alert
          isInline
          component="h2"
          variant="warning"
          title={count === 1 ? text.one : text.many(count)}
          actionClose={<AlertActionCloseButton aria-label={text.dismiss} onClose={dismiss} />}
        >
          <List isPlain>
            {shown.slice(0, most).map((alert) => (
              <ListItem key={idOf(alert)}>
                <Line alert={alert} />
              </ListItem>
            ))}
            {count > most && <ListItem>{text.more(count - most)}</ListItem>}
          </List>
        </Alert>
      )}
      {unknown.length > 0 && (
        <Alert isInline component="h2" variant="info" title={text.unknown}>
          <bdi>{text.unevaluated(unknown.map(({ namespace, rule }) => `${namespace}/${rule}`).join(", "))}</bdi>
        </Alert>
      )}
    </>
  );
}

function Line({ alert }: { alert: One }) {
  const { namespace, kind, name = "", message = "", rule = "", since } = alert;
  const isQuota = kind === "ResourceQuota";
  return (
    <>
      {isQuota ? (
        <bdi>{text.quota(`${namespace}/${name}`)}</bdi>
      ) : (
        <Link to={jobAddress(alert)}>{`${namespace}/${name}`}</Link>
      )}
      {": "}
      <Sentence text={message} /> ({text.rule(rule)} <Ago time={since} />)
    </>
  );
}
