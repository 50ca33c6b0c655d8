"""Further happenings: knowledge that is looked up, and what the English-mixed notebook tells."""

from __future__ import annotations

from bench.memory.diary_set.topics import COMPANIONS, TOPICS, Phrase, Topic, phrase, topic

KNOWLEDGE_TOPICS = (
    topic(
        "处理服务器报警/排查线上故障=机房告急时的对付/系统半夜出事后的救火",
        "运维 故障 知识",
        """磁盘写满/日志撑爆分区=存储没有空余/记录文件占光地方
内存泄漏/进程被系统杀掉=占用越涨越多/程序无端被终止
证书过期/域名没续费=安全凭据失效/网址到期
数据库连接耗尽/主从延迟=后台存取排不上队/副本跟不上
时钟不同步/时区配错=机器时间对不上/小时数差了八个
缓存被击穿/队列堆积=热点全落到后端/消息消化不动""",
        """先限流再扩容/加两台机器=控制进量后添设备/多开几个节点
回滚到上一版/撤销昨天的发布=退回旧的程序/把新上的撤下
写脚本定时清理/加了自动轮转=用程序按点打扫/让其自行更替
改成告警提前通知/调低了阈值=出问题前先提醒/触发线往下放
补了演练手册/写了事后报告=留下应对步骤/总结成文""",
        """命令记在第{n}条，端口是{m}。
恢复用了{n}分钟，影响{m}个用户。
值班的是{p}，工单号{m}。
监控面板第{n}行可以看到。""",
        known=True,
    ),
    topic(
        "冲咖啡/做手冲=泡提神的黑水/把豆子变成饮料",
        "咖啡 知识",
        """水温太高/水烧过头=液体过烫/热得厉害
研磨太细/粉磨成面=颗粒过小/碎得像灰
豆子不新鲜/烘焙过了两个月=原料放久/出炉时日太长
注水太快/水流不稳=倒得过急/浇得时大时小
闷蒸不够/没有预浸=等气泡的时间短/少了先打湿的步骤
滤纸没冲洗/滤杯没预热=过滤的薄片带味/漏斗是凉的""",
        """喝起来发苦/尾段很涩=入口不甜偏药味/末了舌头发紧
酸得皱眉/像柠檬汁=尖锐得难受/刺激如果子水
味道很淡/没有香气=寡得像白水/闻不到什么
换了手摇磨/买了温控壶=改用人力碾/添了能定度数的
干净清甜/余味悠长=清爽带蜜/回味久""",
        """比例是1比{n}，粉{n}克。
总共{n}0秒，分{n}段。
豆子是{p}寄来的，{m}元半斤。
配方写在{pl}那张杯垫背面。""",
        known=True,
    ),
    topic(
        "报税/申报个税=跟税务打交道/向国家交代收入",
        "财务 知识",
        """专项扣除漏填/房租没有登记=可减免的少写/住处开支未录
两处工资合并/年终奖单独计=多份薪酬加总/年底那笔另外算
密码输错锁定/验证码收不到=口令不对被封/短信一直没来
发票抬头写错/税号少一位=开票名称不对/识别号码不全
截止日前一天才想起/差点过期=快到限才动手/险些误了日子
银行卡被退回/账户名不符=收款的卡不认/姓名对不上""",
        """退了一笔钱/拿回几百块=钱返还回来/有进账
还要补缴/倒贴了一些=得再交/反而多付
打热线问清楚/去大厅办好=电话求教/到窗口解决
请会计帮忙改/让代理重报=找专业的人更正/委托他人再交
截图存了档/打印一份留底=画面保留备查/纸质留存""",
        """编号尾数{m}，排在{n}号窗口。
大厅在{pl}，{n}点就有人排队。
金额是{m}元{n}角。
{p}整理了{n}条常见问题。""",
        known=True,
    ),
    topic(
        "徒步进山/走长线=用双脚翻岭/背包远行",
        "户外 路线 知识",
        """起了大雾/路标看不见=白茫茫辨不清/指示牌隐没
桥被冲断/溪水暴涨=过河的没了/山洪挡道
水喝光了/补给点关门=解渴的见底/添吃喝处歇业
脚磨出水泡/鞋底开胶=足上起了疱/穿的掉了底
高原反应/头疼得走不动=海拔引起不适/脑袋难受不能前行
碰见野猪/蛇横在路上=撞上獠牙兽/长虫挡住去处""",
        """原路下撤/半途而废=照来时的退回/没走完
等了救援队/打电话求助=待人来搭救/呼叫外援
在庙里借宿/住进护林站=寺中过夜/守林人处落脚
靠轨迹摸出来/按指南针走=凭记录脱困/看磁针辨向
多走了十公里/绕了一大圈=额外远路/兜了很久""",
        """全程{n}公里，爬升{m}米。
起点在{pl}，末班车{n}点。
{p}整理的轨迹编号{m}。
建议带{n}升水，{n}根登山杖。""",
        known=True,
    ),
)

ALL_TOPICS: tuple[Topic, ...] = TOPICS + KNOWLEDGE_TOPICS

ENGLISH_COMPANIONS = tuple(
    phrase(text)
    for text in (
        "the whole team/our squad=my colleagues/the people from the office",
        "my flatmate/my housemate=the person I share a home with/whoever lives with me",
        "an old classmate/a friend from college=someone I studied with/a pal of university days",
        "my aunt/my uncle=a relative/one of the family",
        "the new intern/a junior hire=the freshest recruit/a beginner at work",
        "our landlord/the owner=whoever rents us the place/the proprietor",
    )
)


def _english(act: str, tags: str, first: str, second: str, details: str) -> Topic:
    return topic(act, tags, first, second, details)


ENGLISH_TOPICS = (
    _english(
        "shipping the release/rolling out the new build=getting the product out/putting fresh software live",
        "work release English",
        """the pipeline kept failing/CI was red all morning=automation refused to pass/checks did not go green
somebody pushed to the wrong branch/a commit landed on main by mistake=code ended up elsewhere/an accident in git
the changelog was missing/nobody wrote the notes=no summary of what is new/documentation was absent
a customer found the bug first/support called us=outsiders noticed the defect/we heard it from clients
the translation file was empty/half the labels were in German=texts were not localised/wrong language on screen""",
        """so we rolled back/we reverted everything=and it was undone/returned to the earlier state
then celebrated with dumplings/and had pizza at ten=finished with a festive meal/ate late afterwards
stayed until midnight/missed the last train=worked very late/could not ride home
wrote a postmortem/filed an incident report=analysed it in writing/put the lessons on paper
agreed to freeze on Fridays/banned late merges=made a rule for week ends/decided on stricter timing""",
        """Build number {m}, {n} fixes in total.
It took {n} hours and {n} cups of coffee.
{p} was on call, ticket {m}.
Next window is in {n} days.""",
    ),
    _english(
        "practising the talk/rehearsing the presentation=getting ready to speak/preparing to go on stage",
        "English speaking study",
        """lost my train of thought/blanked on slide four=forgot what came next/could not recall a word
spoke far too fast/rushed through the ending=the tempo was wild/no pauses at all
the projector died/the clicker ran out of battery=equipment gave up/hardware failure
mixed up two names/called the host by another name=confused people/addressed someone wrongly
nobody laughed at the joke/the room stayed silent=humour fell flat/zero reaction""",
        """but the questions went well/and the Q&A saved me=audience part was good/discussion made up for it
recorded it on my phone/filmed the whole thing=kept a copy to watch/captured it with a camera
cut ten slides/dropped the second demo=made it shorter/removed a portion
got a coach for next time/signed up for a class=found help to improve/joined lessons
slept like a log after/went straight to bed=was exhausted/needed rest at once""",
        """{n} slides, {m} seconds over time.
The room at {pl} seats {m}.
{p} gave me {n} notes on posture.
Next try is in {n} days.""",
    ),
    _english(
        "apartment hunting/looking at flats=searching for somewhere to live/viewing homes",
        "housing English",
        """the ad had lied about the size/photos were ten years old=listing was not honest/pictures misled
the heating was broken/windows would not close=it could not be kept warm/draughty rooms
somebody else signed first/we were an hour late=another party got it/lost it to a quicker one
the agent never came/the broker forgot us=the middleman was a no-show/the go-between stood us up
the bathroom was in the hall/kitchen had no sink=washing facilities were odd/no place for dishes""",
        """kept the old lease/extended our contract=stayed where we are/renewed instead
paid a deposit on the spot/signed right there=handed money over at once/agreed immediately
argued the price down/got a discount=bargained successfully/made it cheaper
took the bus home in the rain/walked back soaked=returned wet/public transport in bad weather
made a list of red flags/wrote down lessons=noted warning signs/kept what we learned""",
        """{n} rooms near {pl}, {m} a month.
Third floor, {n} minutes to the tram.
{p} knows the owner.
We have seen {n} so far.""",
    ),
)

__all__ = ["ALL_TOPICS", "COMPANIONS", "ENGLISH_COMPANIONS", "ENGLISH_TOPICS", "Phrase", "Topic"]
