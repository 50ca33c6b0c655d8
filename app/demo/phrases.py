"""What the demo model says, in English and in Chinese."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phrases:
    """The texts of one language. ``{…}`` marks are filled in by the rules."""

    introduction: str
    plain: str
    calculate: str
    calculate_many: str
    remember: str
    diary: str
    diary_text: str
    missing: str
    prompt: str
    no_prompt: str
    think_inside: str
    think_after: str
    slow: str
    slow_line: str
    answered: str
    calculator: str
    notebook: str
    other_tool: str
    nothing: str
    failed: str
    unknown_tool: str
    no_picture: str
    no_picture_in_answer: str


ENGLISH = Phrases(
    introduction="I am the built-in demo model: a handful of fixed rules, not a language model.",
    plain="""I am the built-in demo model: a handful of fixed rules, not a language model. These I know:
- a sum, such as "what is 12*7": I ask the calculator; two sums in one message become two calls at once
- "remember that I like tea": I have it written to a diary
- "diary block": I write a diary entry straight into my reply
- "missing tool": I call a tool that does not exist and tell you what came back
- "think": I only think about a call, so nothing is run
- "slow": a long answer that you can interrupt
- "show prompt": I repeat the system message as it reached me, so you see what became of placeholders

To talk to a real model, set API_URL and API_Key in config.env and start the server again.""",
    calculate="I ask the calculator.",
    calculate_many="I ask the calculator {count} things at once.",
    remember="I have this written to the diary.",
    diary="Here is a diary entry.",
    diary_text="Someone asked the demo model for a diary entry.",
    missing="I call a tool that does not exist.",
    prompt="This system message reached me:\n{text}",
    no_prompt="No system message reached me. Send one that names an agent or a diary, and ask me again.",
    think_inside="I could ask the calculator:",
    think_after="I only thought about a tool call. What stands in my thoughts is never run.",
    slow="I answer slowly now, in {count} lines. Interrupt me whenever you like.",
    slow_line="Line {number} of {count}.",
    answered="{who} answered: {text}",
    calculator="The calculator",
    notebook="The diary",
    other_tool='The tool "{tool}"',
    nothing="{who} is done and had nothing to say.",
    failed="{who} reported an error: {text}",
    unknown_tool='There is no tool called "{tool}". My call failed, and I leave it at that.',
    no_picture="I cannot see pictures or other attachments; I read the text only.",
    no_picture_in_answer="The tool also sent a picture, which I cannot see.",
)

CHINESE = Phrases(
    introduction="我是内置的演示模型：只有几条固定规则，不是语言模型。",
    plain="""我是内置的演示模型：只有几条固定规则，不是语言模型。我会的有：
- 算式，例如“算一下 12*7”：我去问计算器；一条消息里有两个算式，就同时调用两次
- “记住我喜欢喝茶”：我请日记工具写下来
- “写日记”：我把一篇日记直接写进回复里
- “不存在的工具”：我调用一个没有的工具，再如实告诉你结果
- “思考”：我只在心里想一次调用，什么也不会执行
- “慢”：一个很长的回答，你可以随时打断
- “提示词”：我复述收到的系统消息，你可以看到占位符变成了什么

想和真正的模型对话，请在 config.env 里设置 API_URL 和 API_Key，然后重新启动服务器。""",
    calculate="我去问计算器。",
    calculate_many="我同时问计算器 {count} 个问题。",
    remember="我请日记工具把这句话写下来。",
    diary="这是一篇日记。",
    diary_text="有人请演示模型写一篇日记。",
    missing="我来调用一个不存在的工具。",
    prompt="我收到的系统消息是：\n{text}",
    no_prompt="我没有收到系统消息。请发送一条写有 Agent 或日记占位符的系统消息，再问我一次。",
    think_inside="我可以去问计算器：",
    think_after="我只是想了想工具调用。写在思考里的调用不会被执行。",
    slow="我现在慢慢回答，一共 {count} 行，随时可以打断我。",
    slow_line="第 {number} 行，共 {count} 行。",
    answered="{who}的回答：{text}",
    calculator="计算器",
    notebook="日记",
    other_tool="工具“{tool}”",
    nothing="{who}已完成，没有返回内容。",
    failed="{who}报告了错误：{text}",
    unknown_tool="没有名为“{tool}”的工具。调用失败了，我不再重试。",
    no_picture="我看不到图片和其他附件，只能读文字。",
    no_picture_in_answer="工具还发来了图片，但我看不到。",
)
