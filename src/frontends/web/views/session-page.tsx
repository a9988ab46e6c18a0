import { isConnected } from '../data/api.ts';
import { hrefOf, labelOf, route, TABS } from '../data/overview.ts';
import { actionProblem, openSession, type SessionView, sendCommand } from '../data/session.ts';
import { Button, Notice, PageHeader, StateLabel, SureButton, Unfold } from '../parts/controls.tsx';
import { FOCUSABLE } from '../parts/markdown.tsx';
import { PlanPanel } from '../plan/plan-list.tsx';
import { formatCost, formatDuration, formatNumber, formatTime, words } from '../text/wording.ts';
import { BrowserView } from './browser-view.tsx';
import { Composer } from './composer.tsx';
import { DetailsView } from './details-view.tsx';
import { FilesView } from './files-view.tsx';
import { TranscriptLog } from './transcript-log.tsx';
import { VersionsView } from './versions-view.tsx';

/** One session: its state, plan and transcript, and the composer. */
export function SessionPage({ name }: { name: string }) {
  const { gone, lost, periods, tabs } = words.value;
  const { tab, path } = route.value.page === 'session' ? route.value : { tab: 'run', path: '' };
  const shown = openSession.value;
  const view = shown?.view;
  const problem = shown?.problem;
  const hasBrowser = view !== undefined && (view.browser.open || view.browser.taken !== null);
  return (
    <main class="session" aria-label={labelOf(name)}>
      <PageHeader title={view?.title ?? labelOf(name)}>{view && <RunState {...view} />}</PageHeader>
      <nav class="tabs" aria-label={periods.session}>
        {TABS.filter((one) => one !== 'browser' || tab === one || hasBrowser).map((one) => (
          <a key={one} href={hrefOf(name, one)} aria-current={one === tab ? 'page' : undefined}>
            {tabs[one]}
          </a>
        ))}
      </nav>
      {!isConnected.value && <Notice>{lost}</Notice>}
      {problem && <Notice isProblem>{problem.status === 404 ? gone : problem.message}</Notice>}
      {view?.unserved && <Notice isProblem>{view.unserved}</Notice>}
      {view?.settings_problem && <Notice isProblem>{view.settings_problem}</Notice>}
      {view?.workspace_problem && <Notice isProblem>{view.workspace_problem}</Notice>}
      {view?.plan_problem && <Notice isProblem>{view.plan_problem}</Notice>}
      {view?.folder_problems.map((problem) => (
        <Notice key={problem} isProblem>
          {problem}
        </Notice>
      ))}
      {view && view.rejected.total > 0 && <RejectedFiles {...view.rejected} />}
      {tab === 'run' && <TranscriptLog key={name}>{view && <PlanPanel view={view} />}</TranscriptLog>}
      {tab === 'files' && <FilesView session={name} path={path} />}
      {tab === 'versions' && view && <VersionsView view={view} />}
      {tab === 'browser' && view && <BrowserView view={view} />}
      {tab === 'details' && <DetailsView session={name} />}
      {actionProblem.value !== undefined && <Notice isProblem>{actionProblem.value}</Notice>}
      {view && <Composer key={`composer ${name}`} view={view} approvals={shown?.approvals ?? []} />}
    </main>
  );
}

/** Rejected files: their number and the newest; expanded, the last few and what to do. */
function RejectedFiles({ total, newest }: SessionView['rejected']) {
  const { title, count, listed, next } = words.value.rejected;
  const [last] = newest;
  const summary = (
    <>
      <StateLabel state="blocked" text={count(total)} />
      {last && <span class="line">{`${last.file}: ${last.why}`}</span>}
    </>
  );
  return (
    <section class="rejected-files" aria-label={title}>
      <Unfold kind="notice" summary={summary}>
        {() => (
          <div class="scrolled" {...FOCUSABLE}>
            {total > newest.length && newest.length > 0 && <p>{listed(newest.length)}</p>}
            <ul>
              {newest.map(({ file, why, at }) => (
                <li key={file}>
                  <b>{file}</b>: {why}{' '}
                  <time class="quiet" dateTime={at}>
                    {formatTime(at)}
                  </time>
                </li>
              ))}
            </ul>
            <p>{next}</p>
          </div>
        )}
      </Unfold>
    </section>
  );
}

function RunState(view: SessionView) {
  const { tabs, stepOf, calls, tokens, waitingMessages } = words.value;
  const { standing, plan, run, run_end: runEnd, inbox } = view;
  const spent = run?.spent ?? runEnd?.spent;
  const completed = plan?.steps.filter(({ status }) => status === 'completed').length ?? 0;
  return (
    <div class="row run-state">
      <p role="status" class="row">
        <StateLabel state={standing} />
        {plan && plan.steps.length > 0 && (
          <>
            <span>{stepOf(completed, plan.steps.length)}</span>
            <progress max={plan.steps.length} value={completed} aria-label={tabs.run} />
          </>
        )}
      </p>
      {spent && (
        <span class="quiet">
          {[
            run && calls(spent.iterations, run.limits.iterations),
            tokens(formatNumber(spent.tokens)),
            spent.cost !== null && `${words.value.usageColumns.cost} ${formatCost(spent.cost)}`,
            spent.ms !== undefined && formatDuration(spent.ms),
          ]
            .filter(Boolean)
            .join(' · ')}
        </span>
      )}
      {inbox > 0 && <span class="quiet">{waitingMessages(inbox)}</span>}
      <RunControls {...view} />
    </div>
  );
}

/** Buttons for the run; those without effect now are not shown. */
function RunControls({ name, standing, plan }: SessionView) {
  const { runActions, sure } = words.value;
  const isRunning = standing === 'running';
  const isOpen = plan !== null && (plan.status === 'paused' || plan.status === 'waiting' || plan.status === 'failed');
  // A run that failed before it had a plan can be resumed too.
  const canResume = isOpen || standing === 'failed';
  return (
    <span class="row controls">
      {!isRunning && canResume && (
        <Button kind="main" onClick={() => sendCommand(name, 'continue')}>
          {runActions.resume}
        </Button>
      )}
      {isRunning && <Button onClick={() => sendCommand(name, 'pause')}>{runActions.pause}</Button>}
      {isRunning && <Button onClick={() => sendCommand(name, 'stop')}>{runActions.stop}</Button>}
      {(isRunning || (isOpen && plan.status !== 'failed')) && (
        <SureButton question={sure.question} onClick={() => sendCommand(name, 'cancel')}>
          {runActions.cancel}
        </SureButton>
      )}
    </span>
  );
}
