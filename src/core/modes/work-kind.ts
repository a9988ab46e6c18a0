import { unquotedLines } from '../text/prose.ts';

/** What kind of work a message asks for. `parts`: the same thing for many items. */
export const WORK_KINDS = ['simple', 'complex', 'emergent', 'parts'] as const;
export type WorkKind = (typeof WORK_KINDS)[number];

/** The ruling: a choice and why, or that the rules disagree and why. */
export type WorkKindRuling = { choice: WorkKind | null; why: string; signals: WorkSignals };

/** A longer text says more than the rules can read. */
const LONG_MESSAGE = 400;
/** One sentence: two actions in it need no plan. */
const SHORT_MESSAGE = 60;

/**
 * What kind of work a message asks for, by rules alone. `null` if signals point in more than one direction: the model
 * is asked then. Small talk and questions are `simple`, and so is a short text in which nothing was recognised.
 */
export function ruleOnWorkKind(text: string): WorkKindRuling {
  const signals = readWorkSignals(text);
  return { ...workKindFrom(signals), signals };
}

function workKindFrom(signals: WorkSignals): { choice: WorkKind | null; why: string } {
  const {
    order,
    actions,
    openEnded,
    maybeOpenEnded,
    conditions,
    parallel,
    parts,
    items,
    commands,
    isQuestion,
    length,
  } = signals;
  if (commands > 0 && items === 0) return { choice: 'simple', why: 'the message brings its own steps' };
  const ordered = order.length >= 2 || actions.length >= 3 || items >= 3;
  const many = [
    ...(order.length > 0 ? [`in order: ${order.join(', ')}`] : []),
    ...(actions.length > 1 ? [`${actions.length} actions: ${actions.slice(0, 6).join(', ')}`] : []),
    ...(items > 1 ? [`a list of ${items}`] : []),
  ];
  const way = openEnded.length > 0 ? [`the way is to be found: ${openEnded.join(', ')}`] : [];
  if (openEnded.length > 0 && !isQuestion) {
    return ordered ? { choice: null, why: [...way, ...many].join('; ') } : { choice: 'emergent', why: way.join() };
  }
  if (ordered) return { choice: 'complex', why: many.join('; ') };
  const mixed = [
    ...way,
    ...(order.length > 0 && actions.length >= 2 ? many : []),
    ...(maybeOpenEnded.length > 0 && !isQuestion ? [`perhaps more than one go: ${maybeOpenEnded.join(', ')}`] : []),
    ...(conditions.length > 0 && !isQuestion ? [`a condition: ${conditions.join(', ')}`] : []),
    ...(parallel.length > 0 ? [`at the same time: ${parallel.join(', ')}`] : []),
    ...(parts.length > 0 && !isQuestion ? [`many parts: ${parts.join(', ')}`] : []),
    ...(actions.length === 2 && length > SHORT_MESSAGE ? many : []),
    ...(length > LONG_MESSAGE ? [`${length} characters`] : []),
  ];
  if (mixed.length > 0) return { choice: null, why: [...new Set(mixed)].join('; ') };
  if (isQuestion) return { choice: 'simple', why: 'a question' };
  return { choice: 'simple', why: actions.length > 0 ? `one go: ${actions.join(', ')}` : 'talk, or one go' };
}

/** What a message shows about the work it asks for. Words are quoted as typed, for the reason in plan.json. */
export type WorkSignals = {
  /** Words that put actions in order, without duplicates. */
  order: string[];
  /** What is to be done: verbs of work, without duplicates. */
  actions: string[];
  /** Finding the way is part of the task. */
  openEnded: string[];
  /** Possibly so: "improve this sentence" is no project, "improve the service" is one. */
  maybeOpenEnded: string[];
  /** One thing depends on another. */
  conditions: string[];
  /** Things to be done at the same time. */
  parallel: string[];
  /** Many items of one kind. */
  parts: string[];
  /** Items of a list that are tasks; those with their own command are counted separately. */
  items: number;
  commands: number;
  /** A question that wants an answer, not a piece of work. */
  isQuestion: boolean;
  /** Code points. */
  length: number;
};

const ORDER =
  /首先|先(?=\p{Script=Han})|然后|然後|接着|接著|接下来|接下來|之后|之後|随后|隨後|最后|最後|第[一二三四五六七八九十\d]+步|再(?=把|将|將|去|用|做|写|寫|对|對|从|從|进行|進行|根据|根據)|\b(?:first(?:ly)?|then|next|finally|lastly|afterwards|subsequently|after that|followed by|step \d+)\b/giu;
/** "the next release", "the first chapter", "then" after "if": these order nothing. */
const NO_ORDER =
  /\b(?:the|a|an|this|that|your|our|my|at|its|very) (?:first|next|last)\b|\bnext (?:to|week|month|year|day|time|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b|\bif\b[^.!?\n]{1,80}?\bthen\b|最[后後](?:一|的|[两兩])|首先生|[祖原优優领領率]先|先生|先进|先進|[今以此]后|(?:\d|[几幾两兩一二三四五六七八九十])\s?(?:天|年|月|周|小时|小時|分钟|分鐘)之?[后後]/giu;

const ACTIONS_EN: readonly string[] =
  'search|find|analy[sz]e|calculate|compute|generate|create|write|download|upload|save|compare|summari[sz]e|translate|build|deploy|test|scrape|crawl|collect|gather|extract|convert|draw|plot|chart|verify|validate|check|implement|design|install|configure|set up|clean|merge|rename|send|mail|email|publish|draft|fetch|parse|import|export|refactor|fix|update|document|visuali[sz]e|format|sort|count|list|open|run|read|render|prepare|organi[sz]e|pack|zip|unzip|delete|remove|migrate|benchmark|measure|report|review|research'.split(
    '|',
  );
const ACTION_EN = new RegExp(`\\b(?:${ACTIONS_EN.join('|')})\\b`, 'giu');
/** A listed verb used as a noun: after an article, in an adjective's place, or before "of". */
const NOUN_EN =
  /\b(?:the|a|an|this|that|these|those|its|their|my|your|our|each|every|of|no|some|any|\w+'s) +(?:\w+ )?$/iu;
const ACTION_ZH =
  /搜索|搜尋|查找|查询|查詢|查看|收集|搜集|采集|採集|下载|下載|上传|上傳|爬取|抓取|提取|抽取|清洗|整理|汇总|彙總|统计|統計|分析|计算|計算|对比|對比|比较|比較|总结|總結|归纳|歸納|翻译|翻譯|转换|轉換|生成|创建|創建|建立|编写|編寫|撰写|撰寫|写(?=[一成出个篇份])|寫(?=[一成出個篇份])|制作|製作|绘制|繪製|画(?=[一出个图])|畫(?=[一出個圖])|实现|實現|實作|开发|開發|设计|設計|部署|安装|安裝|配置|测试|測試|验证|驗證|检查|檢查|修复|修復|修改|保存|发送|發送|发布|發布|合并|合併|重命名|导出|導出|匯出|导入|導入/giu;

const OPEN =
  /调研|調研|研究|探索|深入了解|摸清|排查|\b(?:research|investigate|explore|look into|dig into|survey|do a deep dive|find out why|figure out why|track down)\b/giu;
const OPENISH =
  /优化|優化|改进|改進|评估|評估|审查|審查|\b(?:optimi[sz]e|improve|evaluate|assess|review|audit|debug|troubleshoot)\b/giu;
const CONDITION =
  /如果|假如|若是|要是|取决于|取決於|根据.{1,20}决定|根據.{1,20}決定|分情况|分情況|\b(?:if|depending on|based on whether|whether|in case|unless|otherwise)\b/giu;
const TOGETHER =
  /同时|同時|并行|並行|与此同时|與此同時|一方面[\s\S]{1,80}另一方面|\b(?:meanwhile|simultaneously|in parallel|at the same time)\b/giu;
const PARTS =
  /(?:[2-9]|[1-9]\d+|[两兩二三四五六七八九十百千]+|几|幾|多)\s?(?:个|個|份|篇|家|条|條|种|種|张|張|本)(?:不同的?)?(?=\S)|每一?(?:个|個|份|篇|家|条|條|页|頁)|各(?:个|個|家)|逐(?:个|個|一|条|條|篇|份)|分别|分別|\b(?:each|every|all) (?:of (?:the|these|those|my|our) )?(?:\d+ )?(?:files?|pages?|rows?|documents?|chapters?|items?|repos(?:itories)?|projects?|companies|articles?|papers?|modules?|reports?|images?|links?|urls?)\b|\b(?:[2-9]|[1-9]\d+|two|three|four|five|six|seven|eight|nine|ten|twelve|dozens of|hundreds of) (?:different |open[- ]source |other )*(?:files|pages|rows|documents|chapters|items|repos|repositories|projects|companies|articles|papers|modules|reports|images|links|urls|products|countries|cities)\b|\bone by one\b/giu;
const ASKS_EN =
  /^(?:so |and |but |ok,? )?(?:who|whom|whose|what|when|where|why|which|how|is|are|am|was|were|does|do|did|has|have|should|will|would it|may i)\b/iu;
const ASKS_ZH = /(?:吗|嗎|呢|么|麼)[?？。!！\s]*$|^(?:什么|什麼|谁|誰|哪|为什么|為什麼|怎么|怎麼|多少|几点|幾點|是否)/u;

const ITEM = /^\s*(?:\d{1,3}[.)]|[-*+])\s+(?:\[ \]\s+)?(\S.*)$/;

/** Longest text that is read, in UTF-16 units: a task states its subject at the beginning. */
const MAX_CHARS_READ = 8000;

/** Reads the signals of a message, in English or Chinese. Text in code or quotation marks is not the person's own. */
function readWorkSignals(text: string): WorkSignals {
  const head = text.slice(0, MAX_CHARS_READ);
  const lines = unquotedLines(head);
  const prose = lines.join('\n').trim();
  const items = head.split('\n').flatMap((line) => ITEM.exec(line)?.[1] ?? []);
  const commands = items.filter((item) => /`[^`]+`[.;。；]?\s*$/.test(item)).length;
  const lastLine = prose.split('\n').at(-1) ?? '';
  return {
    order: findAll(ORDER, prose.replace(NO_ORDER, ' ')),
    actions: actionsIn(prose),
    openEnded: findAll(OPEN, prose),
    maybeOpenEnded: findAll(OPENISH, prose),
    conditions: findAll(CONDITION, prose),
    parallel: findAll(TOGETHER, prose),
    parts: findAll(PARTS, prose),
    items: items.length - commands,
    commands,
    isQuestion:
      ASKS_ZH.test(lastLine) ||
      (/[?？]\s*$/.test(prose) && !/\b(?:can|could|would|will) you\b|请|請|帮|幫/i.test(prose)) ||
      ASKS_EN.test(prose),
    length: [...text].length,
  };
}

/** Verbs by position: "the test report" asks for nothing. */
function actionsIn(prose: string): string[] {
  const english = [...prose.matchAll(ACTION_EN)].filter(
    (match) =>
      !NOUN_EN.test(
        prose
          .slice(0, match.index)
          .split(/[,.;:\n]/)
          .at(-1) ?? '',
      ),
  );
  return [...new Set([...english.map(([word]) => word.toLowerCase()), ...findAll(ACTION_ZH, prose)])];
}

function findAll(pattern: RegExp, text: string): string[] {
  return [...new Set([...text.matchAll(pattern)].map(([word]) => word.trim().toLowerCase()))];
}
