"""Questions without an answer in the set: ``far`` ones speak of other things, ``near`` ones look like the others."""

from __future__ import annotations

FAR = tuple(
    line.strip()
    for line in """帮我写一个冒泡排序。
把这句话翻译成法语：早安。
光合作用的暗反应在哪里进行？
一公里等于多少英里？
给我讲个关于企鹅的笑话。
推荐几首适合婚礼的曲子。
火星上有没有液态水？
唐朝一共有多少位皇帝？
解释一下量子纠缠。
怎样给自行车补胎？
用三句话介绍一下区块链。
写一首关于大海的短诗。
二次方程的求根公式是什么？
世界上最长的河是哪一条？
你能帮我算 37 乘 89 吗？
怎么去掉衬衫上的墨水渍？
列出五种常见的排序算法。
法国大革命发生在哪一年？
钢铁是怎么炼出来的？
讲讲黑洞是如何形成的。
给孩子起个属龙的小名。
乒乓球的比赛规则是什么？
南极有哪些科考站？
用英语写一封请假邮件。
水的沸点随气压怎么变？
推荐一款入门级天文望远镜。
怎样区分蛾子和蝴蝶？
莫扎特写过多少部歌剧？
帮我润色这段广告词。
地震来了应该躲在哪里？
把下面的表格转成 JSON。
解释一下通货膨胀。
如何给西装熨烫折痕？
围棋里什么叫打劫？
介绍一下二十四史。
蜜蜂怎么传递花粉？
What is the capital of Mongolia?
Write a regular expression for e-mail addresses.
Explain how a jet engine works.
Who painted the Mona Lisa?
Give me five synonyms of "brave".
How many moons does Jupiter have?
Summarise the plot of Hamlet.
Convert 72 degrees Fahrenheit to Celsius.
How do vaccines work?
Name three rivers in Africa.
What does HTTP status 418 mean?
Draft a short thank-you note to a teacher.
What is the square root of 1764?
List the planets from the sun outwards.""".splitlines()
)

# {p}, {pl}, {name} and {asked} come from the words of the other parity, so this set never speaks of them.
NEAR = tuple(
    line.strip()
    for line in """{p}的护照号码是多少？
{p}养的乌龟叫什么？
我和{p}吵架是为了什么？
{p}的婚礼在哪里办的？
在{pl}看极光是哪一天？
{pl}的滑雪票多少钱？
我在{pl}种的葡萄收了几斤？
{p}送我的望远镜是什么型号？
{name}的验收排在哪天？
{name}的密码改成了什么？
{asked}后来由谁负责？
关于{asked}，花了多少钱？
{p}出国留学申请了哪所学校？
我借给{p}的相机还回来没有？
上周和{p}去潜水看见了什么？
去年在{pl}骑马摔了几次？
三个月前{p}寄来的种子种下了吗？
{p}的小说在哪家出版社出的？
{pl}的旧房子卖了多少？
上个月在{pl}拍卖的画成交价是多少？
我给{p}做的木椅用了什么木头？
{p}教我的魔术怎么变？
{pl}那场马拉松我跑了第几名？
{p}的乐谱落在哪里了？
我的潜水证编号是多少？
蜂箱里一共收了多少蜂蜜？
家里的钢琴是哪一年卖掉的？
我的股票账户密码是多少？
小提琴的琴弓在哪里换的毛？
陶艺课烧坏了几个杯子？
我那架无人机是在哪里坠毁的？
跳伞那天的教练是谁？
What is {p}'s blood type?
When did {p} move to Canada?
How much was the boat we bought at {pl}?
Which hotel did {p} recommend in Lisbon?""".splitlines()
)
