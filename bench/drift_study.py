"""Does drift tell work on a goal from work on another, and failing runs from succeeding ones? Tables, and the scales.

``python -m bench.drift_study FILES…`` reads recorded runs (``.jsonl``, ``.jsonl.gz``) and prints; with ``--write`` it
also makes the package's scales from them. No run is judged by a scale that was made from its own task: half of the
tasks is measured with the scales of the other half.
"""

import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from midcourse.policy.signals import drift
from midcourse.policy.signals.drift import (
    GENERAL,
    WINDOW,
    Drift,
    Scale,
    Scales,
    Worked,
    action_text,
    auc,
    calibrate,
    words,
)
from midcourse.policy.signals.encoders import Encoder, find_encoder, why_none

DOMAINS: Final[Mapping[str, str]] = {
    "mini_swe": "code",
    "aider_swe": "code",
    "claude_code": "code",
    "tau_bench": "support",
    "agentrx_tau_retail": "support",
    "who_when": "web",
    "trail": "web",
}
"""What kind of work a source is. Sources that are not here count as general."""
CUTS: Final = (0.5, 0.7, 0.85)
SCALES: Final = Path(drift.__file__).with_name("drift_scales.json")
HOW: Final = (
    "Made by `python -m bench.drift_study --write` from the recorded runs mini_swe, aider_swe (code), tau_bench, "
    "agentrx_tau_retail (support), who_when and trail (web; its SWE-bench runs are code), all of them for general; cjk "
    "from 14 short runs in Chinese written for it by hand, since no recorded ones were at hand. on: median cosine of "
    "windows of 8 actions and their own goal; off: the same with goals of other tasks of the same source. goal_centre, "
    "action_centre: the means that are taken off first, 16-bit floats in base64."
)


# ---- runs


@dataclass(frozen=True)
class Recorded:
    """A run as the study needs it."""

    source: str
    domain: str
    task: str
    goal: str
    outcome: str
    actions: tuple[str, ...]

    @property
    def neighbourhood(self) -> str:
        """The repository, where a task is an issue of one."""
        return self.task.rpartition("-")[0] if self.domain == "code" else ""


def read(paths: Sequence[str]) -> Iterator[Recorded]:
    """The runs of the files that have a goal and actions with words."""
    for path in paths:
        with gzip.open(path, "rt") if path.endswith(".gz") else Path(path).open(encoding="utf-8") as lines:
            for line in lines:
                run: dict[str, Any] = json.loads(line)
                texts = (
                    action_text(step["name"], step["args"] or "", step["text"] or "")
                    for step in run["steps"]
                    if step["kind"] != "user"
                )
                actions = tuple(text for text in texts if text)
                if not run["goal"] or len(actions) < drift.ENOUGH:
                    continue
                source = run["source"]
                domain = "code" if run.get("domain") == "SWE-bench" else DOMAINS.get(source, GENERAL)
                yield Recorded(source, domain, run["task_key"], run["goal"], run["outcome"], actions)


def worked(runs: Sequence[Recorded]) -> list[Worked]:
    """The same, for ``calibrate``."""
    return [Worked(run.goal, run.actions, run.source) for run in runs]


def halves(runs: Sequence[Recorded]) -> tuple[list[Recorded], list[Recorded]]:
    """Two lots of tasks. Trials of a task, and the same task run by two systems, stay together."""
    tasks = sorted({run.task for run in runs})
    odd = set(tasks[1::2])
    return [run for run in runs if run.task not in odd], [run for run in runs if run.task in odd]


# ---- tables


def tell(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table."""
    lines = [
        list(headings),
        *([f"{cell:.2f}" if isinstance(cell, float) else f"{cell}" for cell in row] for row in rows),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    print(f"\n{title}\n")
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def by_source(runs: Sequence[Recorded]) -> dict[str, list[Recorded]]:
    """Sources with enough tasks to say anything of."""
    sources: dict[str, list[Recorded]] = defaultdict(list)
    for run in runs:
        sources[run.source].append(run)
    return {name: each for name, each in sources.items() if len({run.goal for run in each}) >= 2 * drift.FEWEST}


class Study:
    """All runs, and the encoder that looks at them."""

    def __init__(self, runs: Sequence[Recorded], encoder: Encoder) -> None:
        self.runs = [run for run in runs if run.source in by_source(runs)]
        self.halves = halves(self.runs)
        self.vector = cache(self._vector)
        self.encoder = encoder
        self.scales = [
            {domain: calibrate(worked(self._of(half, domain)), encoder) for domain in drift.DOMAINS}
            for half in reversed(self.halves)
        ]
        """For each half, what the other half says."""

    @staticmethod
    def _of(runs: Sequence[Recorded], domain: str) -> list[Recorded]:
        return [run for run in runs if domain in (run.domain, GENERAL)]

    def _vector(self, text: str) -> Any:
        vector = np.asarray(self.encoder.encode(text))
        return vector / max(float(np.linalg.norm(vector)), 1e-9)

    # -- own goal or another

    def separation(self) -> None:
        """How often a window is closer to its own goal than to another."""
        rows: list[list[object]] = []
        for source, runs in by_source(self.runs).items():
            for length in (1, 3, WINDOW):
                own, near, same, other = (np.array(found) for found in self._cosines(runs, length))
                rows.append(
                    [
                        *(source, length, auc(own, near) if len(near) else "-", auc(own, same), auc(own, other)),
                        *map(float, (np.median(own), np.median(same), np.median(other))),
                    ]
                )
        tell(
            "Own goal against others: AUC of windows (1: always told apart, 0.5: chance), and median cosines",
            ("source", "window", "same repository", "same source", "other sources", "own", "same", "other"),
            rows,
        )

    def _cosines(self, runs: Sequence[Recorded], length: int) -> tuple[list[float], ...]:
        found: tuple[list[float], ...] = ([], [], [], [])
        for half, scales in zip(self.halves, self.scales, strict=True):
            for number, run in enumerate(one for one in half if one in runs):
                scale = scales[run.domain]
                same = [one for one in half if one.source == run.source and one.task != run.task]
                near = [one for one in same if run.neighbourhood and one.neighbourhood == run.neighbourhood]
                other = [one for one in half if one.source != run.source]
                windows = self._windows(run, length, scale)
                found[0].extend(windows @ self._direction(run.goal, scale))
                for into, pool in zip(found[1:], (near, same, other), strict=True):
                    for step in range(5 if pool else 0):
                        chosen = pool[(number + step * max(1, len(pool) // 5)) % len(pool)]
                        into.extend(windows @ self._direction(chosen.goal, scale))
        return found

    def _direction(self, goal: str, scale: Scale) -> Any:
        vector = self.vector(words(goal[:2000])) - np.frombuffer(scale.goal_centre, "<f2").astype(np.float32)
        return vector / max(float(np.linalg.norm(vector)), 1e-9)

    def _windows(self, run: Recorded, length: int, scale: Scale) -> Any:
        actions = np.array([self.vector(text) for text in run.actions])
        ends = np.unique(np.linspace(min(length, len(actions)), len(actions), 8).astype(int))
        means = np.array([actions[max(0, end - length) : end].mean(0) for end in ends])
        means -= np.frombuffer(scale.action_centre, "<f2").astype(np.float32)
        return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)

    # -- what the value says

    def values(self, run: Recorded, scale: Scale, *, goal: str = "", actions: Sequence[str] = ()) -> list[float]:
        """The drift after each action, as a policy would see it."""
        measured = Drift(Kept(self.encoder.name, self.vector), scale=scale)
        measured.goal(goal or run.goal)
        found: list[float] = []
        for text in actions or run.actions:
            measured.act(text)
            value = measured.value()
            if value is not None:
                found.append(value)
        return found

    def courses(self, domain: str = "") -> None:
        """What drift does when a run goes over to another task half way, or was on another from its beginning."""
        rows: list[list[object]] = []
        for source, runs in by_source(self.runs).items():
            own: list[float] = []
            spliced: list[float] = []
            other: list[float] = []
            caught: dict[str, list[float]] = {"own": [], "spliced": [], "other": []}
            for half, scales in zip(self.halves, self.scales, strict=True):
                mine = [run for run in half if run in runs and len(run.actions) >= 2 * WINDOW]
                for number, run in enumerate(mine):
                    strangers = [one for one in mine if one.task != run.task]
                    if not strangers:
                        continue
                    stranger, scale = strangers[number % len(strangers)], scales[domain or run.domain]
                    middle = len(run.actions) // 2
                    mixed = [*run.actions[:middle], *stranger.actions[len(stranger.actions) // 2 :]]
                    late = middle + WINDOW + drift.LASTING - drift.ENOUGH  # nothing from before the middle is left
                    parts = (
                        ("own", own, self.values(run, scale)[late:]),
                        ("spliced", spliced, self.values(run, scale, actions=mixed)[late:]),
                        ("other", other, self.values(run, scale, goal=stranger.goal)[late:]),
                    )
                    for name, into, values in parts:
                        into.extend(values)
                        caught[name] += [float(max(values) >= 0.7)] if values else []
            if own:
                told = [float(np.mean(np.array(values) >= 0.7)) for values in (own, spliced, other)]
                rows.append(
                    [
                        *(source, len(caught["own"]), auc(np.array(spliced), np.array(own))),
                        *(auc(np.array(other), np.array(own)), *told),
                        *(float(np.mean(caught[name])) for name in caught),
                    ]
                )
        tell(
            "Second halves of runs of 16 actions and more: as they are (own), replaced by those of another task of the "
            "source (spliced), and against\nanother goal all along (other). AUC of windows; share of windows, and of "
            f"runs, at 0.7 or more; scale: {domain or 'of its domain'}",
            (
                *("source", "runs", "AUC spliced", "AUC other", "own", "spliced", "other"),
                *("own runs", "spliced runs", "other runs"),
            ),
            rows,
        )

    def outcomes(self, domain: str = "") -> None:
        """Whether failing runs drift more than succeeding ones, and what the cut-offs of the profiles mean."""
        rows: list[list[object]] = []
        for source, runs in by_source(self.runs).items():
            found: dict[str, list[list[float]]] = defaultdict(list)
            for half, scales in zip(self.halves, self.scales, strict=True):
                for run in half:
                    if run in runs:
                        found[run.outcome].append(self.values(run, scales[domain or run.domain]))
            worst = {outcome: np.array([max(values, default=0.0) for values in found[outcome]]) for outcome in found}
            told = auc(worst["failure"], worst["success"]) if {"failure", "success"} <= worst.keys() else "-"
            for outcome in sorted(found):
                windows = np.array([value for values in found[outcome] for value in values])
                rows.append(
                    [
                        *(source, outcome, len(found[outcome]), told),
                        *(f"{np.mean(windows >= cut):.0%} / {np.mean(worst[outcome] >= cut):.0%}" for cut in CUTS),
                    ]
                )
        tell(
            "Outcomes: AUC of failing against succeeding runs by their highest drift; share of windows / of runs that "
            f"ever reach the cut-off; scale: {domain or 'of its domain'}",
            ("source", "outcome", "runs", "AUC", *(f"at {cut}" for cut in CUTS)),
            rows,
        )

    def made(self, scales: Scales) -> None:
        """The scales themselves."""
        rows = [
            [*(language, domain), scale.on, scale.off, scale.auc, scale.runs, scale.goals]
            for language, domains in scales.encoders[self.encoder.name].items()
            for domain, scale in domains.items()
        ]
        tell("Scales from all of these runs", ("language", "domain", "on", "off", "AUC", "runs", "goals"), rows)

    def all_scales(self) -> Scales:
        """From every run there is."""
        latin = {domain: calibrate(worked(self._of(self.runs, domain)), self.encoder) for domain in drift.DOMAINS}
        cjk = {GENERAL: calibrate(CHINESE, self.encoder)}
        return Scales(how=HOW, encoders={self.encoder.name: {"latin": latin, "cjk": cjk}})


@dataclass(frozen=True)
class Kept:
    """An encoder that has seen the text before."""

    name: str
    encode: Any


# ---- Chinese, written for this study

_CHINESE: Final = """
修复登录页面的错误 用户会话过期后仍然有效
    检查登录模块 src/auth/session.py 里的会话过期判断 | 运行登录测试 test_login 失败 会话没有过期
    会话的过期时间比较写反了 修改判断 | edit src/auth/session.py expires_at now | 再次运行登录测试 全部通过
把数据库从 MySQL 迁移到 PostgreSQL
    列出所有数据表和索引 show tables mysql | 把表结构转换成 PostgreSQL 的类型 | 导出 MySQL 数据 mysqldump orders
    导入数据到 PostgreSQL psql copy | 核对两个数据库的行数 | 修改连接字符串 postgresql
为购物车增加优惠券功能
    查看购物车代码 cart.py | 优惠券需要检查有效期和最低金额 | 新增 coupon 表和优惠券校验
    在购物车总价里扣除优惠券金额 | 为优惠券写测试 test_coupon | 购物车显示优惠后的价格
分析上季度客户流失的原因 写一份报告
    读取客户名单 customers | 计算每个客户的流失风险 score churn | 流失的客户大多三十天没有登录
    按行业统计客户流失率 | 写报告 上季度流失客户和原因 | 报告保存为 churn.md
预订下周从北京到上海的机票
    搜索北京到上海的航班 search_flights PEK SHA | 比较航班价格和时间 | 您想要上午还是下午的航班
    选择早上的航班 经济舱 | 填写乘客信息 预订机票 book_flight | 机票预订成功 发送行程单
客户要求退货退款 处理订单
    查询订单 get_order_details | 订单已签收 在七天退货期内 | 请问退货的原因是什么
    创建退货单 return_order | 退款到原来的支付方式 | 退款已提交 三到五天到账
调查新能源汽车的电池回收政策
    搜索 电池回收 政策 新能源汽车 | 打开工信部网站 阅读动力电池回收管理办法 | 摘录回收责任和企业名单
    比较欧洲的电池法规 | 整理动力电池回收率的数据 | 写出政策总结
优化首页的加载速度
    测量首页加载时间 lighthouse | 首页图片太大 压缩图片 | 延迟加载首页脚本 defer
    合并样式文件 减少请求 | 再次测量 首页加载快了两秒 | 为静态文件设置缓存
翻译产品说明书成英文
    读取产品说明书 manual.docx | 翻译第一章 安装步骤 | 统一术语 产品型号和零件名称
    翻译安全注意事项 | 校对英文译文 | 保存英文说明书 manual_en.docx
整理会议纪要并发给团队
    读取会议录音文字 transcript | 列出会议的决定和待办事项 | 每个待办事项写上负责人
    写会议纪要 minutes.md | 检查参会人员名单 | 发送纪要邮件给团队 send_email
查明服务器内存泄漏的原因
    查看服务器内存使用曲线 | 抓取内存快照 heap dump | 对比两个快照 缓存对象一直增长
    缓存没有上限 内存不释放 | 给缓存加上大小限制 | 压力测试 服务器内存稳定
为孩子制定一周的健康食谱
    查询儿童每日营养需要 | 列出孩子不喜欢吃的蔬菜 | 安排周一到周三的早餐和午餐
    加入鱼肉和牛奶补充蛋白质 | 计算食谱的热量 | 写出购物清单 蔬菜 水果 鸡蛋
取消用户的会员订阅并解释费用
    查询会员账户 get_user_details | 会员订阅本月已经扣费 | 向用户解释订阅费用和到期时间
    取消自动续费 cancel_subscription | 会员权益保留到月底 | 发送取消订阅确认
训练一个垃圾邮件分类模型
    读取邮件数据集 spam.csv | 清洗邮件文字 去掉标签 | 训练分类模型 naive bayes
    在测试集上评估模型 准确率 | 垃圾邮件召回率偏低 调整阈值 | 保存分类模型 model.pkl
"""


def _chinese() -> list[Worked]:
    runs: list[Worked] = []
    for line in _CHINESE.strip().splitlines():
        if line.startswith(" "):
            goal, actions, _ = runs[-1]
            runs[-1] = Worked(goal, [*actions, *(words(text) for text in line.split("|"))])
        else:
            runs.append(Worked(line, []))
    return runs


CHINESE: Final = _chinese()


def main(arguments: Sequence[str]) -> None:
    """Print the tables; with ``--write``, keep the scales."""
    paths = [argument for argument in arguments if argument != "--write"]
    encoder = find_encoder()
    if encoder is None:
        sys.exit(f"Nothing can be measured: {why_none()}.")
    if not paths:
        sys.exit("Name the files of recorded runs: python -m bench.drift_study data/*.jsonl.gz")
    study = Study(list(read(paths)), encoder)
    scales = study.all_scales()
    study.made(scales)
    study.separation()
    study.courses()
    study.courses(GENERAL)
    study.outcomes()
    study.outcomes(GENERAL)
    if "--write" in arguments:
        SCALES.write_bytes(msgspec.json.format(msgspec.json.encode(scales), indent=1) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
